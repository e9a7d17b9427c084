"""The programs of the catalogue's jobs; they import `options` before torch, which is faster so."""
