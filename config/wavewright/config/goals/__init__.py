"""Goal templates that come with the packs."""
