"""Price tables, and cost estimates for a stack."""
