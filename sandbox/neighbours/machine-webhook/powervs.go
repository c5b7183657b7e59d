package main

import (
	machinev1 "github.com/openshift/api/machine/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// powerVSMemory is the default memory in GiB.
const powerVSMemory = 32

var powerVS = typed[machinev1.PowerVSMachineProviderConfig]{defaults: defaultPowerVS, checks: checkPowerVS}

func defaultPowerVS(spec *machinev1.PowerVSMachineProviderConfig, _ Cluster) {
	if spec.UserDataSecret == nil {
		spec.UserDataSecret = &machinev1.PowerVSSecretReference{Name: userDataSecret}
	}
	if spec.CredentialsSecret == nil {
		spec.CredentialsSecret = &machinev1.PowerVSSecretReference{Name: "powervs-credentials"}
	}
	if spec.SystemType == "" {
		spec.SystemType = "s922"
	}
	if spec.ProcessorType == "" {
		spec.ProcessorType = machinev1.PowerVSProcessorTypeShared
	}
	if spec.Processors.IntVal == 0 && spec.Processors.StrVal == "" {
		spec.Processors = intstr.FromString("0.5")
		if spec.ProcessorType == machinev1.PowerVSProcessorTypeDedicated {
			spec.Processors = intstr.FromInt32(1)
		}
	}
	if spec.MemoryGiB == 0 {
		spec.MemoryGiB = powerVSMemory
	}
}

func checkPowerVS(spec *machinev1.PowerVSMachineProviderConfig, _ Cluster, _ Machine, found *findings) {
	found.require(spec.KeyPairName != "", "keyPairName", "Required value: providerSpec.keyPairName must be provided")
	checkPowerVSResource(spec.ServiceInstance, "serviceInstance", false, found)
	checkPowerVSResource(spec.Image, "image", false, found)
	checkPowerVSResource(spec.Network, "network", true, found)
	found.require(spec.UserDataSecret != nil && spec.UserDataSecret.Name != "", "userDataSecret", "Required value")
	found.require(spec.CredentialsSecret != nil && spec.CredentialsSecret.Name != "", "credentialsSecret", "Required value")
	found.require(spec.MemoryGiB >= 0, "memoryGiB", "must not be negative")
}

// checkPowerVSResource checks how a resource is identified. Only a network can be found by a regular
// expression.
func checkPowerVSResource(resource machinev1.PowerVSResource, field string, byRegEx bool, found *findings) {
	switch resource.Type {
	case machinev1.PowerVSResourceTypeID:
		found.require(resource.ID != nil, field+".id", "Required value")
	case machinev1.PowerVSResourceTypeName:
		found.require(resource.Name != nil, field+".name", "Required value")
	case machinev1.PowerVSResourceTypeRegEx:
		found.require(byRegEx, field, "Invalid value: RegEx: must be identified by ID or Name")
		found.require(resource.RegEx != nil, field+".regex", "Required value")
	case "":
		found.require(false, field, "Required value: an identifier must be provided")
	default:
		found.oneOf(string(resource.Type), field+".type", "ID", "Name", "RegEx")
	}
}
