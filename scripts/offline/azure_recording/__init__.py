"""A recording double of azure-native's plugin: it checks and records, and no Azure is behind it.

For where that plugin can't be downloaded and for tests. It takes what a program declares, refuses
what the SDK's own types or the services' documented rules do not allow, and shows the rest in a
preview. `up` it refuses, unless a test lends it a directory to record in and a cluster to stand
behind the declared one (`recording`).
"""
