"""The programs of the catalogue's jobs; they import `options` first, which speeds up torch."""
