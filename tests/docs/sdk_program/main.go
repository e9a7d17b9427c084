// Writes the SDK for Python of a package's schema, with Pulumi's own generator: SCHEMA FOLDER.
package main

import (
	"encoding/json"
	"log"
	"os"
	"path/filepath"

	"github.com/pulumi/pulumi/pkg/v3/codegen/python"
	"github.com/pulumi/pulumi/pkg/v3/codegen/schema"
)

func main() {
	text, err := os.ReadFile(os.Args[1])
	fail(err)
	var spec schema.PackageSpec
	fail(json.Unmarshal(text, &spec))
	pkg, found, err := schema.BindSpec(spec, schema.NewNullLoader(), schema.ValidationOptions{})
	fail(err)
	if found.HasErrors() {
		fail(found)
	}
	files, err := python.GeneratePackage("pulumi", pkg, nil, nil)
	fail(err)
	for name, content := range files {
		file := filepath.Join(os.Args[2], name)
		fail(os.MkdirAll(filepath.Dir(file), 0o755))
		fail(os.WriteFile(file, content, 0o644))
	}
}

func fail(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
