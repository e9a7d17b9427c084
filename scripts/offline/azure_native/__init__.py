"""A stub of azure-native's plugin that serves previews, for machines that can't download it."""
