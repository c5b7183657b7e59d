package main

import (
	"fmt"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
)

const (
	gcpDiskType  = "pd-standard"
	gcpDiskImage = "projects/rhcos-cloud/global/images/rhcos-414-92-202307070025-0-gcp-x86-64"
	// gcpDiskSize is the size in GB of a disk that is defaulted as a whole.
	gcpDiskSize = 128
	// gcpSmallestDisk and gcpLargestDisk are the limits of the size of a disk in GB.
	gcpSmallestDisk = 16
	gcpLargestDisk  = 65536
)

var gcp = typed[machinev1beta1.GCPMachineProviderSpec]{defaults: defaultGCP, checks: checkGCP}

func defaultGCP(spec *machinev1beta1.GCPMachineProviderSpec, cluster Cluster) {
	if spec.MachineType == "" {
		spec.MachineType = "n1-standard-4"
	}
	if len(spec.NetworkInterfaces) == 0 {
		spec.NetworkInterfaces = []*machinev1beta1.GCPNetworkInterface{{
			Network:    cluster.Name + "-network",
			Subnetwork: cluster.Name + "-worker-subnet",
		}}
	}
	if len(spec.Disks) == 0 {
		// Only a disk that is defaulted as a whole is deleted with its machine.
		spec.Disks = []*machinev1beta1.GCPDisk{{AutoDelete: true, Boot: true, SizeGB: gcpDiskSize}}
	}
	for _, disk := range spec.Disks {
		if disk == nil {
			continue
		}
		if disk.Type == "" {
			disk.Type = gcpDiskType
		}
		if disk.Image == "" {
			disk.Image = gcpDiskImage
		}
	}
	if len(spec.GPUs) > 0 && spec.GPUs[0].Count == 0 {
		spec.GPUs[0].Count = 1
	}
	if len(spec.Tags) == 0 {
		spec.Tags = []string{cluster.Name + "-worker"}
	}
	if spec.UserDataSecret == nil {
		spec.UserDataSecret = &corev1.LocalObjectReference{Name: userDataSecret}
	}
	if spec.CredentialsSecret == nil {
		spec.CredentialsSecret = &corev1.LocalObjectReference{Name: "gcp-cloud-credentials"}
	}
}

func checkGCP(spec *machinev1beta1.GCPMachineProviderSpec, _ Cluster, _ Machine, found *findings) {
	found.require(spec.Region != "", "region", "Required value")
	found.require(strings.HasPrefix(spec.Zone, spec.Region), "zone",
		fmt.Sprintf("Invalid value: %q: must be in the region %q", spec.Zone, spec.Region))
	found.require(spec.MachineType != "", "machineType", "Required value")
	found.oneOf(string(spec.OnHostMaintenance), "onHostMaintenance", "", "Migrate", "Terminate")
	found.oneOf(string(spec.RestartPolicy), "restartPolicy", "", "Always", "Never")
	found.require(len(spec.NetworkInterfaces) > 0, "networkInterfaces", "Required value")
	for at, one := range spec.NetworkInterfaces {
		field := fmt.Sprintf("networkInterfaces[%d]", at)
		found.require(one != nil && one.Network != "", field+".network", "Required value")
		found.require(one != nil && one.Subnetwork != "", field+".subnetwork", "Required value")
	}
	checkGCPDisks(spec.Disks, found)
	found.require(len(spec.GPUs) <= 1, "gpus", "Too many: must have at most 1 item")
	if len(spec.ServiceAccounts) == 0 {
		found.warnings = append(found.warnings, "providerSpec.serviceAccounts: no service account provided")
	}
	found.require(len(spec.ServiceAccounts) <= 1, "serviceAccounts", "exactly 1 service account must be supplied")
	for at, account := range spec.ServiceAccounts {
		field := fmt.Sprintf("serviceAccounts[%d]", at)
		found.require(account.Email != "", field+".email", "Required value")
		found.require(len(account.Scopes) > 0, field+".scopes", "Required value")
	}
	found.require(spec.UserDataSecret != nil && spec.UserDataSecret.Name != "", "userDataSecret", "Required value")
	found.require(spec.CredentialsSecret != nil && spec.CredentialsSecret.Name != "", "credentialsSecret", "Required value")
}

func checkGCPDisks(disks []*machinev1beta1.GCPDisk, found *findings) {
	found.require(len(disks) > 0, "disks", "Required value")
	for at, disk := range disks {
		field := fmt.Sprintf("disks[%d]", at)
		if disk == nil {
			found.require(false, field, "Required value")
			continue
		}
		found.require(disk.SizeGB == 0 || disk.SizeGB >= gcpSmallestDisk && disk.SizeGB <= gcpLargestDisk, field+".sizeGb",
			fmt.Sprintf("Invalid value: %d: must be between 16 and 65536", disk.SizeGB))
		found.oneOf(disk.Type, field+".type", "", "pd-standard", "pd-ssd", "pd-balanced", "hyperdisk-balanced")
	}
}
