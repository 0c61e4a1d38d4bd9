// Decodes manifests into the Go types of their APIs; an unknown field, a wrong type or an unknown kind is an error.
//
//	go run . hpa.yaml keda.yaml scrape.yaml
//
// Prints a line for each manifest: file, apiVersion, kind.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	documents "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

func main() {
	failed := false
	for _, file := range os.Args[1:] {
		if err := check(file); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", file, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

func check(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	reader := documents.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var header meta.TypeMeta
		if err := yaml.Unmarshal(document, &header); err != nil {
			return err
		}
		if err := decode(header, document); err != nil {
			return err
		}
		fmt.Println(file, header.APIVersion, header.Kind)
	}
}

func decode(header meta.TypeMeta, document []byte) error {
	switch header.APIVersion + " " + header.Kind {
	case "autoscaling/v2 HorizontalPodAutoscaler":
		return yaml.UnmarshalStrict(document, &autoscaling.HorizontalPodAutoscaler{})
	case "v1 ConfigMap":
		return yaml.UnmarshalStrict(document, &core.ConfigMap{})
	case "apps/v1 Deployment":
		return yaml.UnmarshalStrict(document, &apps.Deployment{})
	case "monitoring.coreos.com/v1 PodMonitor":
		return yaml.UnmarshalStrict(document, &monitoring.PodMonitor{})
	case "keda.sh/v1alpha1 ScaledObject":
		object := &keda.ScaledObject{}
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			return err
		}
		// The checks of KEDA's admission webhook that need no cluster.
		return errors.Join(
			keda.ValidateTriggers(object.Spec.Triggers),
			keda.CheckReplicaCountBoundsAreValid(object),
			keda.CheckFallbackValid(object),
		)
	}
	return fmt.Errorf("no type is known for %q %q", header.APIVersion, header.Kind)
}
