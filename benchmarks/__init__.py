"""Programs that measure. They assert nothing: numbers depend on the machine, and a person reads them."""
