"""What the model is shown, and who decides: sources, one budget, the ledger, rendering."""
