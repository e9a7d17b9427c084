// Serves pulumi-kubernetes' plugin, as the project's own main package does. That one embeds files
// that are made beside it, which Go's module cache, being read-only, has no place for.
package main

import (
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/version"
)

func main() {
	// Without the schema `pulumi import` fails; programs don't need it.
	provider.Serve("kubernetes", version.Version, nil, nil)
}
