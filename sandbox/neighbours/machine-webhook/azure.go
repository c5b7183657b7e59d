package main

import (
	"fmt"
	"regexp"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
)

const (
	azureCredentials = "azure-cloud-credentials"
	// azureDiskLimit is the size in GB that a disk of Azure must stay below.
	azureDiskLimit = 32768
	// azureSmallestDisk is the smallest size of a data disk in GB.
	azureSmallestDisk = 4
	// azureHighestLun is the highest logical unit number of a data disk.
	azureHighestLun = 63
	// azureLongestDiskName is the longest name of a data disk, with the name of the Machine.
	azureLongestDiskName = 80
)

var azure = typed[machinev1beta1.AzureMachineProviderSpec]{defaults: defaultAzure, checks: checkAzure}

var diskSuffix = regexp.MustCompile(`^[a-zA-Z0-9]([\w.-]*[a-zA-Z0-9])?$`)

func defaultAzure(spec *machinev1beta1.AzureMachineProviderSpec, cluster Cluster) {
	if spec.VMSize == "" {
		spec.VMSize = "Standard_D4s_V3"
	}
	// A network without a subnet, or a subnet without a network, is left for the check to refuse.
	if spec.Vnet == "" && spec.Subnet == "" {
		spec.Vnet = cluster.Name + "-vnet"
		spec.Subnet = cluster.Name + "-worker-subnet"
	}
	if spec.Image == (machinev1beta1.Image{}) {
		gallery := strings.ReplaceAll(cluster.Name, "-", "_")
		spec.Image.ResourceID = fmt.Sprintf(
			"/resourceGroups/%[1]s-rg/providers/Microsoft.Compute/galleries/gallery_%[2]s/images/%[1]s/versions/latest",
			cluster.Name, gallery)
	}
	if spec.UserDataSecret == nil {
		spec.UserDataSecret = &corev1.SecretReference{}
	}
	if spec.UserDataSecret.Name == "" {
		spec.UserDataSecret.Name = userDataSecret
	}
	if spec.CredentialsSecret == nil {
		spec.CredentialsSecret = &corev1.SecretReference{}
	}
	if spec.CredentialsSecret.Name == "" {
		spec.CredentialsSecret.Name = azureCredentials
	}
	if spec.CredentialsSecret.Namespace == "" {
		spec.CredentialsSecret.Namespace = machineNamespace
	}
}

func checkAzure(spec *machinev1beta1.AzureMachineProviderSpec, cluster Cluster, machine Machine, found *findings) {
	found.require(spec.VMSize != "", "vmSize", "Required value")
	found.require(!spec.PublicIP || cluster.PublicZone, "publicIP",
		"Forbidden: the DNS of the cluster must have a public zone")
	found.require(spec.Vnet == "" || spec.Subnet != "", "subnet", "Required value: vnet is set")
	found.require(spec.Subnet == "" || spec.Vnet != "", "vnet", "Required value: subnet is set")
	checkAzureImage(spec.Image, found)
	secret := spec.UserDataSecret
	found.require(secret != nil && secret.Name != "", "userDataSecret", "Required value")
	secret = spec.CredentialsSecret
	found.require(secret != nil && secret.Name != "" && secret.Namespace != "", "credentialsSecret", "Required value")
	checkAzureDisk(spec.OSDisk, found)
	found.oneOf(string(spec.UltraSSDCapability), "ultraSSDCapability", "", "Enabled", "Disabled")
	checkAzureDataDisks(spec.DataDisks, machine, found)
	if boot := spec.Diagnostics.Boot; boot != nil {
		found.oneOf(string(boot.StorageAccountType), "diagnostics.boot.storageAccountType", "AzureManaged", "CustomerManaged")
		isCustomer := boot.StorageAccountType == machinev1beta1.CustomerManagedAzureDiagnosticsStorage
		found.require(isCustomer == (boot.CustomerManaged != nil), "diagnostics.boot.customerManaged",
			"must be set if and only if storageAccountType is CustomerManaged")
	}
}

func checkAzureImage(image machinev1beta1.Image, found *findings) {
	if image.ResourceID != "" {
		found.require(image == machinev1beta1.Image{ResourceID: image.ResourceID}, "image.resourceID",
			"must be the only field of the image")
		return
	}
	for field, value := range map[string]string{
		"offer": image.Offer, "publisher": image.Publisher, "sku": image.SKU, "version": image.Version,
	} {
		found.require(value != "", "image."+field, "Required value")
	}
}

func checkAzureDisk(disk machinev1beta1.OSDisk, found *findings) {
	found.require(disk.DiskSizeGB > 0 && disk.DiskSizeGB < azureDiskLimit, "osDisk.diskSizeGB",
		fmt.Sprintf("Invalid value: %d: must be greater than zero and less than %d", disk.DiskSizeGB, azureDiskLimit))
	found.oneOf(disk.CachingType, "osDisk.cachingType", "", "None", "ReadOnly", "ReadWrite")
	location := disk.DiskSettings.EphemeralStorageLocation
	found.oneOf(location, "osDisk.diskSettings.ephemeralStorageLocation", "", "Local")
	found.require(location != "Local" || disk.CachingType == "ReadOnly", "osDisk.cachingType",
		"must be ReadOnly for an ephemeral disk")
}

func checkAzureDataDisks(disks []machinev1beta1.DataDisk, machine Machine, found *findings) {
	luns := map[int32]bool{}
	suffixes := map[string]bool{}
	for at, disk := range disks {
		field := fmt.Sprintf("dataDisks[%d]", at)
		name := machine.Name + "_" + disk.NameSuffix
		found.require(len(name) <= azureLongestDiskName, field+".nameSuffix", "the name of the disk is too long")
		found.require(diskSuffix.MatchString(disk.NameSuffix), field+".nameSuffix",
			"must start and end with a letter or digit, and contain only letters, digits, '_', '.' and '-'")
		found.require(!suffixes[disk.NameSuffix], field+".nameSuffix", "must be unique")
		found.require(disk.DiskSizeGB >= azureSmallestDisk, field+".diskSizeGB", "must be at least 4")
		found.require(disk.Lun >= 0 && disk.Lun <= azureHighestLun, field+".lun", "must be between 0 and 63")
		found.require(!luns[disk.Lun], field+".lun", "each data disk must have a unique lun")
		found.oneOf(string(disk.DeletionPolicy), field+".deletionPolicy", "Delete", "Detach")
		isUltra := disk.ManagedDisk.StorageAccountType == machinev1beta1.StorageAccountUltraSSDLRS
		isCached := disk.CachingType != "" && disk.CachingType != machinev1beta1.CachingTypeNone
		found.require(!isUltra || !isCached, field+".cachingType", "must be None or omitted for UltraSSD_LRS")
		luns[disk.Lun] = true
		suffixes[disk.NameSuffix] = true
	}
}
