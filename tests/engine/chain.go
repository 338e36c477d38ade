// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/discovery"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"

	"encoding/json"
)

// chain is the part of the API server's admission that concerns pods: tokens first, then the policies, and both again
// where a policy has changed the pod.
type chain struct {
	admission admission.MutationInterface
	objects   admission.ObjectInterfaces
}

// described is a clientset that publishes Kubernetes' OpenAPI, which client-go brings along.
type described struct{ *fake.Clientset }

func (c described) Discovery() discovery.DiscoveryInterface {
	return schemas{c.Clientset.Discovery()}
}

type schemas struct{ discovery.DiscoveryInterface }

func (schemas) OpenAPIV3() openapi.Client { return openapitest.NewEmbeddedFileClient() }

func newChain(manifests []json.RawMessage) *chain {
	client := described{fake.NewClientset(objects(manifests)...)}
	factory := informers.NewSharedInformerFactory(client, 0)
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	plugins := admission.NewPlugins()
	mutating.Register(plugins)
	plugins.Register("ServiceAccount", func(io.Reader) (admission.Interface, error) { return tokens{}, nil })
	initialize := initializer.New(
		client, dynamicfake.NewSimpleDynamicClient(runtime.NewScheme()), factory,
		authorizerfactory.NewAlwaysAllowAuthorizer(), utilfeature.DefaultFeatureGate,
		compatibility.DefaultBuildEffectiveVersion(), background.Done(), mapper)
	built, err := plugins.NewFromPlugins(
		[]string{"ServiceAccount", mutating.PluginName}, none{},
		admission.PluginInitializers{initialize, mapped{mapper}}, nil)
	if err != nil {
		panic(err)
	}
	factory.Start(background.Done())
	factory.WaitForCacheSync(background.Done())
	return &chain{built.(admission.MutationInterface), admission.NewObjectInterfacesFromScheme(scheme.Scheme)}
}

type none struct{}

func (none) ConfigFor(string) (io.Reader, error) { return nil, nil }

type mapped struct{ meta.RESTMapper }

func (m mapped) Initialize(plugin admission.Interface) {
	if wants, ok := plugin.(initializer.WantsRESTMapper); ok {
		wants.SetRESTMapper(m.RESTMapper)
	}
}

// admit is what becomes of a request to create this pod.
func (c *chain) admit(text []byte) (*corev1.Pod, error) {
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	for {
		pod := parse[corev1.Pod](text)
		attributes := admission.NewAttributesRecord(
			pod, nil, kind, pod.Namespace, pod.Name, corev1.SchemeGroupVersion.WithResource("pods"), "",
			admission.Create, &metav1.CreateOptions{}, false, nil)
		err := c.admission.Admit(background, attributes, c.objects)
		// The plugin reads its OpenAPI in the background, and says so until it has.
		if !errors.IsServiceUnavailable(err) {
			return pod, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// tokens replaces the API server's ServiceAccount plugin, which is not a library: each container without a mount
// at the token's path gets one, also at the second invocation.
type tokens struct{}

const tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"

func (tokens) Handles(operation admission.Operation) bool { return operation == admission.Create }

func (tokens) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	pod := a.GetObject().(*corev1.Pod)
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			addToken(&containers[i])
		}
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Name == "kube-api-access" {
			return nil
		}
	}
	projected := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "kube-api-access", VolumeSource: projected})
	return nil
}

func addToken(container *corev1.Container) {
	for _, mount := range container.VolumeMounts {
		if mount.MountPath == tokenPath {
			return
		}
	}
	mount := corev1.VolumeMount{Name: "kube-api-access", MountPath: tokenPath, ReadOnly: true}
	container.VolumeMounts = append(container.VolumeMounts, mount)
}
