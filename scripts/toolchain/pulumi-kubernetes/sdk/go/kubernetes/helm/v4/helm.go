// Package v4 has the structured inputs of helm.v4.Chart.
package v4

import (
	"context"
	"reflect"

	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
)

// PostRenderer is a command that changes a chart's rendered manifests.
type PostRenderer struct {
	Args    []string `pulumi:"args"`
	Command string   `pulumi:"command"`
}

// PostRendererInput is a PostRenderer that may not be known yet.
type PostRendererInput interface {
	pulumi.Input

	ToPostRendererOutput() PostRendererOutput
	ToPostRendererOutputWithContext(context.Context) PostRendererOutput
}

// PostRendererArgs are the inputs of a PostRenderer.
type PostRendererArgs struct {
	Args    pulumi.StringArrayInput `pulumi:"args"`
	Command pulumi.StringInput      `pulumi:"command"`
}

func (PostRendererArgs) ElementType() reflect.Type { return reflect.TypeFor[PostRenderer]() }

func (i PostRendererArgs) ToPostRendererOutput() PostRendererOutput {
	return i.ToPostRendererOutputWithContext(context.Background())
}

func (i PostRendererArgs) ToPostRendererOutputWithContext(ctx context.Context) PostRendererOutput {
	return pulumi.ToOutputWithContext(ctx, i).(PostRendererOutput)
}

// PostRendererOutput is a PostRenderer that may not be known yet.
type PostRendererOutput struct{ *pulumi.OutputState }

func (PostRendererOutput) ElementType() reflect.Type { return reflect.TypeFor[PostRenderer]() }

func (o PostRendererOutput) ToPostRendererOutput() PostRendererOutput { return o }

func (o PostRendererOutput) ToPostRendererOutputWithContext(context.Context) PostRendererOutput {
	return o
}

// RepositoryOpts are a chart repository and the credentials for it.
type RepositoryOpts struct {
	CaFile   pulumi.AssetOrArchive `pulumi:"caFile"`
	CertFile pulumi.AssetOrArchive `pulumi:"certFile"`
	KeyFile  pulumi.AssetOrArchive `pulumi:"keyFile"`
	Password *string               `pulumi:"password"`
	Repo     *string               `pulumi:"repo"`
	Username *string               `pulumi:"username"`
}

// RepositoryOptsInput is RepositoryOpts that may not be known yet.
type RepositoryOptsInput interface {
	pulumi.Input

	ToRepositoryOptsOutput() RepositoryOptsOutput
	ToRepositoryOptsOutputWithContext(context.Context) RepositoryOptsOutput
}

// RepositoryOptsArgs are the inputs of RepositoryOpts.
type RepositoryOptsArgs struct {
	CaFile   pulumi.AssetOrArchiveInput `pulumi:"caFile"`
	CertFile pulumi.AssetOrArchiveInput `pulumi:"certFile"`
	KeyFile  pulumi.AssetOrArchiveInput `pulumi:"keyFile"`
	Password pulumi.StringPtrInput      `pulumi:"password"`
	Repo     pulumi.StringPtrInput      `pulumi:"repo"`
	Username pulumi.StringPtrInput      `pulumi:"username"`
}

func (RepositoryOptsArgs) ElementType() reflect.Type { return reflect.TypeFor[RepositoryOpts]() }

func (i RepositoryOptsArgs) ToRepositoryOptsOutput() RepositoryOptsOutput {
	return i.ToRepositoryOptsOutputWithContext(context.Background())
}

func (i RepositoryOptsArgs) ToRepositoryOptsOutputWithContext(ctx context.Context) RepositoryOptsOutput {
	return pulumi.ToOutputWithContext(ctx, i).(RepositoryOptsOutput)
}

// RepositoryOptsOutput is RepositoryOpts that may not be known yet.
type RepositoryOptsOutput struct{ *pulumi.OutputState }

func (RepositoryOptsOutput) ElementType() reflect.Type { return reflect.TypeFor[RepositoryOpts]() }

func (o RepositoryOptsOutput) ToRepositoryOptsOutput() RepositoryOptsOutput { return o }

func (o RepositoryOptsOutput) ToRepositoryOptsOutputWithContext(context.Context) RepositoryOptsOutput {
	return o
}

func init() {
	pulumi.RegisterInputType(reflect.TypeFor[PostRendererInput](), PostRendererArgs{})
	pulumi.RegisterInputType(reflect.TypeFor[RepositoryOptsInput](), RepositoryOptsArgs{})
	pulumi.RegisterOutputType(PostRendererOutput{})
	pulumi.RegisterOutputType(RepositoryOptsOutput{})
}
