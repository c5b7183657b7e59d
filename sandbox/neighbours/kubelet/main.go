// Kubelet stands in for the port-forwards of a kubelet in tests.
//
// It serves them with the streaming server that kubelets and container runtimes use, and connects to
// the port on loopback. The names of pods have no meaning to it. It must never be part of what a
// cluster runs.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// forwarder copies between streams and ports on loopback.
type forwarder struct{}

func (forwarder) PortForward(_ context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer connection.Close()
	ended := make(chan error, 2)
	go func() {
		_, err := io.Copy(connection, stream)
		ended <- err
	}()
	go func() {
		_, err := io.Copy(stream, connection)
		ended <- err
	}()
	return <-ended
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "kubelet: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	listen := flag.String("listen", "", "loopback address to serve HTTPS on, such as 127.0.0.1:10250")
	certificate := flag.String("certificate", "", "file of the serving certificate in PEM")
	key := flag.String("key", "", "file of the private key in PEM")
	webSocket := flag.Bool("websocket", true, "whether upgrades to WebSocket are accepted")
	flag.Parse()

	routes := http.NewServeMux()
	routes.HandleFunc("/readyz", func(writer http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(writer, "ok")
	})
	routes.HandleFunc("/portForward/{namespace}/{pod}", func(writer http.ResponseWriter, request *http.Request) {
		if strings.EqualFold(request.Header.Get("Upgrade"), "websocket") && !*webSocket {
			http.Error(writer, "WebSocket is not accepted", http.StatusBadRequest)
			return
		}
		options, err := portforward.NewV4Options(request)
		if err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(writer, request, forwarder{}, request.PathValue("pod"), "", options,
			time.Hour, 30*time.Second, portforward.SupportedProtocols)
	})
	server := &http.Server{
		Addr:              *listen,
		Handler:           routes,
		ReadHeaderTimeout: 10 * time.Second,
	}
	return server.ListenAndServeTLS(*certificate, *key)
}
