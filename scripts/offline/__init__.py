"""What takes the place of a download that cannot be had here."""
