// Machine-webhook stands in for the admission webhooks of OpenShift's Machine API in tests.
//
// It decodes the provider spec of a Machine into the Go type of its platform, sets defaults, and
// encodes it again, as OpenShift does. It refuses the provider specs that OpenShift refuses. It must
// never be part of what a cluster runs.
//
// Without --listen it reads cases from standard input and prints their results; see case.go.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "machine-webhook: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "", "loopback address to serve HTTPS on, such as 127.0.0.1:9443")
	certificate := flag.String("certificate", "", "file of the serving certificate in PEM")
	key := flag.String("key", "", "file of the private key in PEM")
	platformName := flag.String("platform", "AWS", "platform of the cluster, as in its Infrastructure")
	var cluster Cluster
	flag.StringVar(&cluster.Name, "infrastructure-name", "", "infrastructureName of the cluster")
	flag.StringVar(&cluster.Region, "region", "", "AWS region of the cluster")
	flag.BoolVar(&cluster.PublicZone, "public-zone", false, "whether the DNS of the cluster has a public zone")
	flag.Parse()

	if *listen == "" {
		return runCases(os.Stdin, os.Stdout)
	}
	handler := &handler{cluster: cluster, platform: platformNamed(*platformName)}
	server := &http.Server{
		Addr:              *listen,
		Handler:           handler.routes(),
		ReadHeaderTimeout: 10 * time.Second,
	}
	return server.ListenAndServeTLS(*certificate, *key)
}
