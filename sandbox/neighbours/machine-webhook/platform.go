package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Defaults that several platforms share.
const (
	userDataSecret     = "worker-user-data"
	machineNamespace   = "openshift-machine-api"
	roleLabel          = "machine.openshift.io/cluster-api-machine-role"
	clusterLabel       = "machine.openshift.io/cluster-api-cluster"
	controlPlaneMaster = "master"
)

// Cluster holds what the webhooks know about the cluster. They read it once, when they start.
type Cluster struct {
	// Name is the infrastructureName.
	Name string
	// Region is the AWS region.
	Region string
	// PublicZone tells whether the DNS configuration has a public zone.
	PublicZone bool
}

// Machine holds what the checks read of a Machine beside its provider spec.
type Machine struct {
	Name   string
	Labels map[string]string
}

// findings are the results of a check.
type findings struct {
	refusals []string
	warnings []string
}

// require adds a refusal unless the condition holds.
func (f *findings) require(holds bool, field, text string) {
	if !holds {
		f.refusals = append(f.refusals, fmt.Sprintf("providerSpec.%s: %s", field, text))
	}
}

// oneOf adds a refusal unless the value is one of the allowed ones.
func (f *findings) oneOf(value, field string, allowed ...string) {
	for _, one := range allowed {
		if value == one {
			return
		}
	}
	text := fmt.Sprintf("Invalid value: %q: must be one of \"%s\"", value, strings.Join(allowed, `", "`))
	f.require(false, field, text)
}

// platform stores and checks the provider specs of one platform. Both take JSON.
type platform interface {
	// store returns what a creation stores for a provider spec.
	store(value []byte, cluster Cluster) ([]byte, error)
	// check judges a provider spec that is about to be stored.
	check(value []byte, cluster Cluster, machine Machine) findings
}

// typed is a platform whose provider spec has the Go type S.
type typed[S any] struct {
	defaults func(*S, Cluster)
	checks   func(*S, Cluster, Machine, *findings)
}

// platformNamed returns a platform by its name in the Infrastructure. Provider specs of the other
// platforms are stored as they are sent.
func platformNamed(name string) platform {
	switch name {
	case "AWS":
		return aws
	case "Azure":
		return azure
	case "GCP":
		return gcp
	case "VSphere":
		return vsphere
	case "Nutanix":
		return nutanix
	case "PowerVS":
		return powerVS
	default:
		return untyped{}
	}
}

var errNoValue = errors.New("providerSpec.value: Required value: a value must be provided")

func (t typed[S]) store(value []byte, cluster Cluster) ([]byte, error) {
	spec, err := decode[S](value)
	if err != nil {
		return nil, err
	}
	t.defaults(spec, cluster)
	return json.Marshal(spec)
}

func (t typed[S]) check(value []byte, cluster Cluster, machine Machine) findings {
	spec, err := decode[S](value)
	if err != nil {
		return findings{refusals: []string{err.Error()}}
	}
	var found findings
	if field, ok := unknownField[S](value); ok {
		text := fmt.Sprintf("providerSpec.value: Unsupported value: %q: Unknown field (%s) will be ignored", field, field)
		found.warnings = append(found.warnings, text)
	}
	t.checks(spec, cluster, machine, &found)
	return found
}

// decode reads a provider spec as OpenShift does: keys match regardless of their case, unknown fields
// are dropped, and a number becomes a string where the type has one.
func decode[S any](value []byte) (*S, error) {
	if len(value) == 0 || string(value) == "null" {
		return nil, errNoValue
	}
	spec := new(S)
	if err := yaml.Unmarshal(value, spec); err != nil {
		return nil, fmt.Errorf("providerSpec.value: Invalid value: %w", err)
	}
	return spec, nil
}

// unknownField returns the first field that the type does not have.
func unknownField[S any](value []byte) (string, bool) {
	err := yaml.UnmarshalStrict(value, new(S))
	if err == nil {
		return "", false
	}
	_, field, ok := strings.Cut(err.Error(), "unknown field ")
	return strings.Trim(field, `"`), ok
}

// untyped is a platform whose provider specs the webhooks do not read.
type untyped struct{}

func (untyped) store(value []byte, _ Cluster) ([]byte, error) { return value, nil }

func (untyped) check([]byte, Cluster, Machine) findings { return findings{} }
