package main

import (
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
)

var aws = typed[machinev1beta1.AWSMachineProviderConfig]{defaults: defaultAWS, checks: checkAWS}

func defaultAWS(spec *machinev1beta1.AWSMachineProviderConfig, cluster Cluster) {
	if spec.InstanceType == "" {
		spec.InstanceType = "m5.large"
	}
	if spec.Placement.Region == "" {
		spec.Placement.Region = cluster.Region
	}
	if spec.UserDataSecret == nil {
		spec.UserDataSecret = &corev1.LocalObjectReference{Name: userDataSecret}
	}
	if spec.CredentialsSecret == nil {
		spec.CredentialsSecret = &corev1.LocalObjectReference{Name: "aws-cloud-credentials"}
	}
}

func checkAWS(spec *machinev1beta1.AWSMachineProviderConfig, _ Cluster, machine Machine, found *findings) {
	found.require(spec.AMI.ID != nil, "ami", "Required value: expected providerSpec.ami.id to be populated")
	found.require(spec.Placement.Region != "", "placement.region", "Required value")
	found.require(spec.InstanceType != "", "instanceType", "Required value")
	found.require(spec.UserDataSecret != nil, "userDataSecret", "Required value")
	found.require(spec.CredentialsSecret != nil, "credentialsSecret", "Required value")
	found.oneOf(string(spec.Placement.Tenancy), "placement.tenancy", "", "default", "dedicated", "host")
	isHost := spec.Placement.Tenancy == machinev1beta1.HostTenancy || spec.Placement.Host != nil
	isControlPlane := machine.Labels[roleLabel] == controlPlaneMaster
	found.require(!isHost || !isControlPlane, "placement.tenancy",
		"Forbidden: a control plane machine cannot run on a dedicated host")
	found.oneOf(string(spec.NetworkInterfaceType), "networkInterfaceType", "", "ENA", "EFA")
	found.oneOf(string(spec.MetadataServiceOptions.Authentication), "metadataServiceOptions.authentication",
		"", "Optional", "Required")
	if spec.CPUOptions != nil {
		found.require(*spec.CPUOptions != machinev1beta1.CPUOptions{}, "cpuOptions",
			"Invalid value: {}: at least one field must be set")
	}
}
