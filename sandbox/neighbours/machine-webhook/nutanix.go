package main

import (
	"fmt"

	machinev1 "github.com/openshift/api/machine/v1"
	corev1 "k8s.io/api/core/v1"
)

// nutanixLongestCategory is the longest key or value of a category.
const nutanixLongestCategory = 64

var nutanix = typed[machinev1.NutanixMachineProviderConfig]{defaults: defaultNutanix, checks: checkNutanix}

func defaultNutanix(spec *machinev1.NutanixMachineProviderConfig, _ Cluster) {
	if spec.UserDataSecret == nil {
		spec.UserDataSecret = &corev1.LocalObjectReference{Name: userDataSecret}
	}
	if spec.CredentialsSecret == nil {
		spec.CredentialsSecret = &corev1.LocalObjectReference{Name: "nutanix-credentials"}
	}
}

func checkNutanix(spec *machinev1.NutanixMachineProviderConfig, _ Cluster, _ Machine, found *findings) {
	checkNutanixIdentifier(spec.Cluster, "cluster", found)
	checkNutanixIdentifier(spec.Image, "image", found)
	found.require(len(spec.Subnets) > 0, "subnets", "Required value: at least 1 subnet must be provided")
	for at, subnet := range spec.Subnets {
		checkNutanixIdentifier(subnet, fmt.Sprintf("subnets[%d]", at), found)
	}
	if spec.Project.Type != "" {
		checkNutanixIdentifier(spec.Project, "project", found)
	}
	found.oneOf(string(spec.BootType), "bootType", "", "Legacy", "UEFI", "SecureBoot")
	for at, category := range spec.Categories {
		field := fmt.Sprintf("categories[%d]", at)
		for name, value := range map[string]string{"key": category.Key, "value": category.Value} {
			found.require(len(value) > 0 && len(value) <= nutanixLongestCategory, field+"."+name,
				"must have between 1 and 64 characters")
		}
	}
	found.require(spec.UserDataSecret != nil && spec.UserDataSecret.Name != "", "userDataSecret", "Required value")
	found.require(spec.CredentialsSecret != nil && spec.CredentialsSecret.Name != "", "credentialsSecret", "Required value")
}

func checkNutanixIdentifier(identifier machinev1.NutanixResourceIdentifier, field string, found *findings) {
	switch identifier.Type {
	case machinev1.NutanixIdentifierName:
		found.require(identifier.Name != nil && *identifier.Name != "", field+".name", "Required value")
	case machinev1.NutanixIdentifierUUID:
		found.require(identifier.UUID != nil && *identifier.UUID != "", field+".uuid", "Required value")
	default:
		found.oneOf(string(identifier.Type), field+".type", "name", "uuid")
	}
}
