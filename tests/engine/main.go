// SPDX-License-Identifier: Apache-2.0

// Kubernetes' own MutatingAdmissionPolicy engine, for tests/chart/engine.rs: the admission plugin of the API server with its
// informers, its CEL and its OpenAPI, in a chain that is invoked again as the API server's is. Only the cluster is not
// real: the objects lie in client-go's fake clientset, and a stand-in mounts ServiceAccount tokens.
//
// Reads one JSON request a line from standard input and answers with one JSON line each:
//
//	{"compile": POLICY, "version": "1.33"}              -> {"errors": [TEXT]}; what the API server refuses at `apply`
//	{"policies": [OBJECT], "pod": POD}                  -> {"pod": POD} or {"refused": TEXT}
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/klog/v2"
)

type request struct {
	Compile  *v1.MutatingAdmissionPolicy
	Version  string
	Policies []json.RawMessage
	Pod      json.RawMessage
}

func main() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	chains := map[string]*chain{}
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked request
		answer := map[string]any{}
		if err := json.Unmarshal(line, &asked); err != nil {
			answer["error"] = err.Error()
		} else if asked.Compile != nil {
			answer["errors"] = compile(asked.Compile, version.MustParse(asked.Version))
		} else {
			key, _ := json.Marshal(asked.Policies)
			if chains[string(key)] == nil {
				chains[string(key)] = newChain(asked.Policies)
			}
			answer = chains[string(key)].answer(asked)
		}
		text, err := json.Marshal(answer)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(text))
	}
}

func (c *chain) answer(asked request) map[string]any {
	pod, err := c.admit(asked.Pod)
	if err != nil {
		return map[string]any{"refused": err.Error()}
	}
	return map[string]any{"pod": pod}
}

// compile checks a policy as the API server of the next release after this version does when the policy is applied.
func compile(policy *v1.MutatingAdmissionPolicy, compatible *version.Version) []string {
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(compatible))
	if err != nil {
		panic(err)
	}
	found := []string{}
	check := func(place string, result *cel.Error) {
		if result != nil {
			found = append(found, place+": "+result.Error())
		}
	}
	declared := plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	for _, variable := range policy.Spec.Variables {
		accessor := &mutating.Variable{Name: variable.Name, Expression: variable.Expression}
		result := compiler.CompileAndStoreVariable(accessor, declared, environment.NewExpressions)
		check("variable "+variable.Name, result.Error)
	}
	for i := range policy.Spec.MatchConditions {
		condition := (*matchconditions.MatchCondition)(&policy.Spec.MatchConditions[i])
		result := compiler.CompileCELExpression(condition, declared, environment.NewExpressions)
		check("matchCondition "+condition.Name, result.Error)
	}
	declared.HasPatchTypes = true
	for i, mutation := range policy.Spec.Mutations {
		expression := &patch.JSONPatchCondition{Expression: mutation.JSONPatch.Expression}
		result := compiler.CompileCELExpression(expression, declared, environment.NewExpressions)
		check(fmt.Sprintf("mutation %d", i), result.Error)
	}
	return found
}

func parse[T any](text []byte) *T {
	object := new(T)
	if err := json.Unmarshal(text, object); err != nil {
		panic(err)
	}
	return object
}

func objects(manifests []json.RawMessage) []runtime.Object {
	found := []runtime.Object{}
	for _, manifest := range manifests {
		switch kind := parse[metav1.TypeMeta](manifest).Kind; kind {
		case "MutatingAdmissionPolicy":
			found = append(found, withDefaults(parse[v1.MutatingAdmissionPolicy](manifest)))
		case "MutatingAdmissionPolicyBinding":
			found = append(found, parse[v1.MutatingAdmissionPolicyBinding](manifest))
		default:
			panic("no kind of admission: " + kind)
		}
	}
	for _, name := range []string{"gpu-operator", "nvidia-gpu-operator", "default"} {
		labels := map[string]string{"kubernetes.io/metadata.name": name}
		found = append(found, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}})
	}
	return found
}

// withDefaults fills in what the API server does: the selector that selects everything.
func withDefaults(policy *v1.MutatingAdmissionPolicy) *v1.MutatingAdmissionPolicy {
	constraints := policy.Spec.MatchConstraints
	if constraints.NamespaceSelector == nil {
		constraints.NamespaceSelector = &metav1.LabelSelector{}
	}
	if constraints.ObjectSelector == nil {
		constraints.ObjectSelector = &metav1.LabelSelector{}
	}
	equivalent := v1.Equivalent
	constraints.MatchPolicy = &equivalent
	return policy
}

// background lasts as long as the process; informers want something that could end.
var background, _ = context.WithCancel(context.Background())
