package main

import (
	"fmt"
	"regexp"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
)

// vsphereMostTags is the largest number of tags of a machine.
const vsphereMostTags = 10

var vsphere = typed[machinev1beta1.VSphereMachineProviderSpec]{defaults: defaultVSphere, checks: checkVSphere}

var tagURN = regexp.MustCompile(
	`^urn:vmomi:InventoryServiceTag:[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}:[^:]+$`)

func defaultVSphere(spec *machinev1beta1.VSphereMachineProviderSpec, _ Cluster) {
	if spec.UserDataSecret == nil {
		spec.UserDataSecret = &corev1.LocalObjectReference{Name: userDataSecret}
	}
	if spec.CredentialsSecret == nil {
		spec.CredentialsSecret = &corev1.LocalObjectReference{Name: "vsphere-cloud-credentials"}
	}
}

func checkVSphere(spec *machinev1beta1.VSphereMachineProviderSpec, _ Cluster, _ Machine, found *findings) {
	found.require(spec.Template != "", "template", "Required value: template must be provided")
	if spec.Workspace == nil {
		found.require(false, "workspace", "Required value: workspace must be provided")
	} else {
		found.require(spec.Workspace.Server != "", "workspace.server", "Required value")
		prefix := fmt.Sprintf("/%s/vm/", spec.Workspace.Datacenter)
		folder := spec.Workspace.Folder
		found.require(folder == "" || strings.HasPrefix(folder, prefix), "workspace.folder",
			fmt.Sprintf("Invalid value: %q: must begin with %q", folder, prefix))
	}
	found.require(len(spec.Network.Devices) > 0, "network.devices", "Required value: at least 1 network device")
	found.require(len(spec.TagIDs) <= vsphereMostTags, "tagIDs", "must have at most 10 tags")
	for at, tag := range spec.TagIDs {
		found.require(tagURN.MatchString(tag), fmt.Sprintf("tagIDs[%d]", at),
			"must have the form urn:vmomi:InventoryServiceTag:<UUID>:GLOBAL")
	}
	found.require(spec.UserDataSecret != nil && spec.UserDataSecret.Name != "", "userDataSecret", "Required value")
	found.require(spec.CredentialsSecret != nil && spec.CredentialsSecret.Name != "", "credentialsSecret", "Required value")
}
