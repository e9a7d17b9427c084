"""Programs for the catalogue's jobs. They import `options` first, to import torch faster."""
