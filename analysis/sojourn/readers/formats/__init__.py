"""Log formats of other programs: from the text that defines a format to the SQL that reads its lines."""
