// Package fieldpath gives version 4's names to version 6's types. The provider imports version 4,
// and the client libraries that it shares with Kubernetes 1.37 use version 6.
package fieldpath

import "sigs.k8s.io/structured-merge-diff/v6/fieldpath"

type (
	// Set is a set of paths to fields.
	Set = fieldpath.Set
	// Path is a path to a field.
	Path = fieldpath.Path
)

// MakePath makes a path of field names, keys and indices.
func MakePath(parts ...any) (Path, error) { return fieldpath.MakePath(parts...) }
