host LowCardinality(String) COMMENT 'of the machine that has the file; may be empty',
    file LowCardinality(String) COMMENT 'path of the file; may be empty',
    position UInt64 COMMENT 'byte at which the line begins in its file',
    line_bytes UInt32 COMMENT 'length in the file, with the newline; 0: not known',
    redact Bool DEFAULT true COMMENT 'remove queries and the last part of addresses'
