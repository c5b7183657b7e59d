package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// longestCase is the longest line of input in bytes.
const longestCase = 4 << 20

// testCase is a provider spec to store, one JSON object on a line.
type testCase struct {
	Platform           string            `json:"platform"`
	InfrastructureName string            `json:"infrastructureName"`
	Region             string            `json:"region"`
	PublicZone         bool              `json:"publicZone"`
	Labels             map[string]string `json:"labels"`
	Value              json.RawMessage   `json:"value"`
}

// testResult is the result of a case: what is stored, or why it is refused.
type testResult struct {
	Stored   json.RawMessage `json:"stored,omitempty"`
	Refusals []string        `json:"refusals,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
}

// runCases stores the provider specs of all cases as a creation would, and prints one result for
// each.
func runCases(input io.Reader, output io.Writer) error {
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, longestCase)
	encoder := json.NewEncoder(output)
	for lines.Scan() {
		var one testCase
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			return fmt.Errorf("reading a case: %w", err)
		}
		if err := encoder.Encode(one.run()); err != nil {
			return fmt.Errorf("writing a result: %w", err)
		}
	}
	return lines.Err()
}

func (c testCase) run() testResult {
	cluster := Cluster{Name: c.InfrastructureName, Region: c.Region, PublicZone: c.PublicZone}
	platform := platformNamed(c.Platform)
	stored, err := platform.store(c.Value, cluster)
	if err != nil {
		return testResult{Refusals: []string{err.Error()}}
	}
	found := platform.check(stored, cluster, Machine{Name: "case", Labels: c.Labels})
	result := testResult{Refusals: found.refusals, Warnings: found.warnings}
	if len(found.refusals) == 0 {
		result.Stored = stored
	}
	return result
}
