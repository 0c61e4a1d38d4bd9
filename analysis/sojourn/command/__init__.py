"""What commands share: options, completion, progress, reading and answering."""
