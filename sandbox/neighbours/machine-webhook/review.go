package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// largestReview is the largest request body in bytes.
const largestReview = 8 << 20

// handler answers admission reviews for the Machines and MachineSets of one cluster.
type handler struct {
	cluster  Cluster
	platform platform
}

// object is a Machine or a MachineSet, as far as the webhooks read it.
type object struct {
	Metadata struct {
		Name              string            `json:"name"`
		Labels            map[string]string `json:"labels"`
		DeletionTimestamp *metav1.Time      `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		machineSpec
		Template *struct {
			Metadata struct {
				Labels map[string]string `json:"labels"`
			} `json:"metadata"`
			Spec machineSpec `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

type machineSpec struct {
	ProviderSpec struct {
		Value json.RawMessage `json:"value"`
	} `json:"providerSpec"`
}

// patchOperation is an operation of a JSON patch.
type patchOperation struct {
	Operation string `json:"op"`
	Path      string `json:"path"`
	Value     any    `json:"value"`
}

func (h *handler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /mutate", h.reviewed(h.mutate))
	mux.HandleFunc("POST /validate", h.reviewed(h.validate))
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

// reviewed reads an AdmissionReview, and writes the response of judge into the answer.
func (h *handler) reviewed(judge func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, largestReview))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(body, &review); err != nil || review.Request == nil {
			http.Error(w, fmt.Sprintf("the body must be an AdmissionReview with a request: %v", err), http.StatusBadRequest)
			return
		}
		response := judge(review.Request)
		response.UID = review.Request.UID
		review.Request, review.Response = nil, response
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}
}

// mutate stores the provider spec as the Go type does, with its defaults.
func (h *handler) mutate(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	var machine object
	if err := json.Unmarshal(request.Object.Raw, &machine); err != nil {
		return refused([]string{err.Error()}, nil)
	}
	path, value := "/spec/providerSpec", machine.Spec.ProviderSpec.Value
	if machine.Spec.Template != nil {
		path, value = "/spec/template/spec/providerSpec", machine.Spec.Template.Spec.ProviderSpec.Value
	}
	stored, err := h.platform.store(value, h.cluster)
	if err != nil {
		return refused([]string{err.Error()}, nil)
	}
	var patch []patchOperation
	if !bytes.Equal(stored, value) {
		// The whole providerSpec is set, because its value may be the only field.
		patch = append(patch, patchOperation{"add", path, map[string]any{"value": json.RawMessage(stored)}})
	}
	if _, ok := machine.Metadata.Labels[clusterLabel]; !ok && machine.Spec.Template == nil {
		patch = append(patch, labelPatch(machine.Metadata.Labels, h.cluster.Name))
	}
	response := &admissionv1.AdmissionResponse{Allowed: true}
	if len(patch) > 0 {
		type_ := admissionv1.PatchTypeJSONPatch
		response.PatchType = &type_
		if response.Patch, err = json.Marshal(patch); err != nil {
			return refused([]string{err.Error()}, nil)
		}
	}
	return response
}

// labelPatch adds the label with the name of the cluster.
func labelPatch(labels map[string]string, cluster string) patchOperation {
	if labels == nil {
		return patchOperation{"add", "/metadata/labels", map[string]string{clusterLabel: cluster}}
	}
	return patchOperation{"add", "/metadata/labels/" + strings.ReplaceAll(clusterLabel, "/", "~1"), cluster}
}

// validate judges the provider spec of an object that is created or updated.
func (h *handler) validate(request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	var machine object
	if err := json.Unmarshal(request.Object.Raw, &machine); err != nil {
		return refused([]string{err.Error()}, nil)
	}
	if machine.Metadata.DeletionTimestamp != nil {
		// An object that is being deleted must be able to lose its finalizers.
		return &admissionv1.AdmissionResponse{Allowed: true}
	}
	labels, value := machine.Metadata.Labels, machine.Spec.ProviderSpec.Value
	if template := machine.Spec.Template; template != nil {
		labels, value = template.Metadata.Labels, template.Spec.ProviderSpec.Value
	}
	found := h.platform.check(value, h.cluster, Machine{Name: machine.Metadata.Name, Labels: labels})
	if len(found.refusals) > 0 {
		return refused(found.refusals, found.warnings)
	}
	return &admissionv1.AdmissionResponse{Allowed: true, Warnings: found.warnings}
}

func refused(refusals, warnings []string) *admissionv1.AdmissionResponse {
	message := refusals[0]
	if len(refusals) > 1 {
		message = "[" + strings.Join(refusals, ", ") + "]"
	}
	return &admissionv1.AdmissionResponse{
		Warnings: warnings,
		Result:   &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message},
	}
}
