// Package v2 registers the objects of charts and manifests.
package v2

import (
	"fmt"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// RegisterResource registers an object under the type that the typed SDKs register it under.
func RegisterResource(ctx *pulumi.Context, apiVersion, kind, name string, props pulumi.Input,
	opts ...pulumi.ResourceOption) (pulumi.CustomResource, error) {
	if !strings.Contains(apiVersion, "/") {
		apiVersion = "core/" + apiVersion
	}
	var res pulumi.CustomResourceState
	token := fmt.Sprintf("kubernetes:%s:%s", apiVersion, kind)
	if err := ctx.RegisterResource(token, name, props, &res, opts...); err != nil {
		return nil, err
	}
	return &res, nil
}
