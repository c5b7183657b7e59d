// Session runs calls of kubectl one after the other in one process, for tests.
//
// A process of kubectl needs 60 milliseconds of a processor before it reads its arguments. A session
// needs them once. It reads each call as a JSON object from standard input, and stores the exit code
// in a file when the call has ended. It ends when its input ends. It must never be part of what a
// cluster runs.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

// call is one call of kubectl. The streams and the status are paths of files.
type call struct {
	Arguments   []string          `json:"arguments"`
	Folder      string            `json:"folder"`
	Environment map[string]string `json:"environment"`
	Stdin       string            `json:"stdin"`
	Stdout      string            `json:"stdout"`
	Stderr      string            `json:"stderr"`
	Status      string            `json:"status"`
}

// exit is the panic with which a call ends in place of the process.
type exit int

func main() {
	calls := json.NewDecoder(os.Stdin)
	util.BehaviorOnFatal(func(message string, code int) {
		if message != "" {
			fmt.Fprintln(os.Stderr, strings.TrimSuffix(message, "\n"))
		}
		panic(exit(code))
	})
	own := os.Stderr
	for {
		var next call
		if err := calls.Decode(&next); err != nil {
			return
		}
		status, err := next.run()
		if err == nil {
			err = next.end(status)
		}
		if err != nil {
			fmt.Fprintf(own, "a session of kubectl: %v\n", err)
			os.Exit(1)
		}
	}
}

// run makes the call in the environment, the folder, and with the streams that it names. kubectl
// reads all of them from the process.
func (c call) run() (status int, err error) {
	os.Clearenv()
	for name, value := range c.Environment {
		if err := os.Setenv(name, value); err != nil {
			return 0, err
		}
	}
	if err := os.Chdir(c.Folder); err != nil {
		return 0, err
	}
	in, err := os.Open(c.Stdin)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	out, err := os.Create(c.Stdout)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	errors, err := os.Create(c.Stderr)
	if err != nil {
		return 0, err
	}
	defer errors.Close()
	os.Args = append([]string{"kubectl"}, c.Arguments...)
	os.Stdin, os.Stdout, os.Stderr = in, out, errors
	return kubectl(), nil
}

// end stores the exit code. The file gets its name when it is complete.
func (c call) end(status int) error {
	unfinished := c.Status + ".unfinished"
	if err := os.WriteFile(unfinished, []byte(strconv.Itoa(status)), 0o600); err != nil {
		return err
	}
	return os.Rename(unfinished, c.Status)
}

// kubectl does what the main function of kubectl does, without plugins.
func kubectl() (status int) {
	defer func() {
		switch cause := recover().(type) {
		case nil:
		case exit:
			status = int(cause)
		default:
			panic(cause)
		}
	}()
	_, err := logs.GlogSetter(cmd.GetLogVerbosity(os.Args))
	util.CheckErr(err)
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	flags := genericclioptions.NewConfigFlags(true).
		WithDeprecatedPasswordFlag().
		WithDiscoveryBurst(300).
		WithDiscoveryQPS(50).
		WithWarningPrinter(streams)
	options := cmd.KubectlOptions{Arguments: os.Args, ConfigFlags: flags, IOStreams: streams}
	util.CheckErr(cli.RunNoErrOutput(cmd.NewDefaultKubectlCommandWithArgs(options)))
	return 0
}
