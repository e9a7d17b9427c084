"""What a stack costs: prices, and what is estimated by them."""
