"""The pack `knowledge`: documents become a graph of entities, relations and observations with evidence."""
