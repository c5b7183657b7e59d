// Olm runs the two operators of the Operator Lifecycle Manager beside a control plane, for tests:
// the one that executes install plans, and the one that installs a ClusterServiceVersion. It has no
// server, unlike OLM's own programs, which listen on all addresses of a machine.
//
// With the argument plan, it reads the objects of a bundle from standard input, as a JSON list, and
// prints the steps of their install plan. It must never be part of what a cluster runs.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	configclient "github.com/openshift/client-go/config/clientset/versioned"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/api/client/clientset/versioned"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/operators"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/operators/catalog"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/operators/olm"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/controller/registry/resolver"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/lib/operatorclient"
	"github.com/operator-framework/operator-lifecycle-manager/pkg/lib/queueinformer"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/sirupsen/logrus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
)

// How often the operators look at all objects without an event.
const resync = 30 * time.Second

func main() {
	work := operate
	if len(os.Args) > 1 && os.Args[1] == "plan" {
		work = plan
	}
	if err := work(); err != nil {
		fmt.Fprintf(os.Stderr, "olm: %v\n", err)
		os.Exit(1)
	}
}

// plan prints the steps that OLM executes for a bundle.
func plan() error {
	var objects []map[string]any
	if err := json.NewDecoder(os.Stdin).Decode(&objects); err != nil {
		return fmt.Errorf("reading the objects of the bundle: %w", err)
	}
	bundle := &api.Bundle{}
	for _, object := range objects {
		text, err := json.Marshal(object)
		if err != nil {
			return err
		}
		bundle.Object = append(bundle.Object, string(text))
		if object["kind"] == "ClusterServiceVersion" {
			bundle.CsvJson = string(text)
			bundle.CsvName = object["metadata"].(map[string]any)["name"].(string)
		}
	}
	steps, err := resolver.NewStepsFromBundle(bundle, os.Getenv("NAMESPACE"), "", "none", os.Getenv("NAMESPACE"))
	if err != nil {
		return fmt.Errorf("planning the bundle: %w", err)
	}
	return json.NewEncoder(os.Stdout).Encode(steps)
}

// operate runs the operators until a signal arrives.
func operate() error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	kubeconfig, namespace := os.Getenv("KUBECONFIG"), os.Getenv("NAMESPACE")
	logger := logrus.New()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := operators.AddToScheme(scheme); err != nil {
		return err
	}
	executor, err := catalog.NewOperator(ctx, kubeconfig, clock.RealClock{}, logger, resync, "none", "none", "none",
		namespace, scheme, time.Minute, time.Minute, -1)
	if err != nil {
		return fmt.Errorf("configuring the operator of install plans: %w", err)
	}
	executor.Run(ctx)
	<-executor.Ready()

	openshift, err := configclient.NewForConfig(config)
	if err != nil {
		return err
	}
	client, err := operatorclient.NewClientFromRestConfig(config)
	if err != nil {
		return err
	}
	resources, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	names, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	installer, err := olm.NewOperator(ctx,
		olm.WithLogger(logger),
		olm.WithWatchedNamespaces(""),
		olm.WithResyncPeriod(queueinformer.ResyncWithJitter(resync, 0.2)),
		olm.WithExternalClient(resources),
		olm.WithMetadataClient(names),
		olm.WithOperatorClient(client),
		olm.WithRestConfig(config),
		olm.WithConfigClient(openshift),
		olm.WithOpenshiftConfigAPIExists(false),
	)
	if err != nil {
		return fmt.Errorf("configuring the operator of ClusterServiceVersions: %w", err)
	}
	installer.Run(ctx)
	<-installer.Ready()
	logger.Info("both operators run")
	<-ctx.Done()
	return nil
}
