"""The tests' double of azure-native's plugin: creates resources in a directory instead of Azure.

A test starts it in place of the plugin with SLIPWAY_AZURE_DOUBLE set (`store.VARIABLE`).
"""

from scripts.azure_native import run
from tests.doubles.azure_native.provider import AzureDouble

run(AzureDouble, "double")
