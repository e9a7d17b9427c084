"""kind's StorageClass comes out of kind's own source, with the images that it names."""

from images.build.kind_node import volumes

_SOURCE = """package nodeimage

const storageProvisionerImage = "docker.io/kindest/provisioner:v1"
const storageHelperImage = "docker.io/kindest/helper:v2"

var defaultStorageImages = []string{storageProvisionerImage, storageHelperImage}

const defaultStorageManifest = `
image: ` + storageProvisionerImage + `
helper: ` + storageHelperImage + `
`
"""


def test_the_manifest_names_the_images_of_that_release() -> None:
    manifest, images = volumes(_SOURCE)
    assert manifest.strip().splitlines() == [
        "image: docker.io/kindest/provisioner:v1",
        "helper: docker.io/kindest/helper:v2",
    ]
    assert images == {
        "provisioner": "docker.io/kindest/provisioner:v1",
        "helper": "docker.io/kindest/helper:v2",
    }
