"""What every other package stands on; it imports none of them."""
