"""Define what a request is: schema, components and their identity, verdict, units, formatting, errors. No I/O."""
