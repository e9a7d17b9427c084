// Package kubernetes and those below it hold what the provider uses of pulumi-kubernetes' SDK for
// Go. The SDK has a type for each kind of object, and compiling them takes as long as the provider.
package kubernetes

import "reflect"

// UntypedArgs are a resource's inputs, by name.
type UntypedArgs map[string]any

// ElementType makes them a pulumi.Input.
func (UntypedArgs) ElementType() reflect.Type { return reflect.TypeFor[map[string]any]() }
