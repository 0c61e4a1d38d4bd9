-- One user with one role, whose password is in a file. It is hashed before it is sent, so that neither a query
-- log nor a process list ever shows it; made again, it takes the password the file holds now.
CREATE USER IF NOT EXISTS ${user} ${on_cluster} IDENTIFIED WITH sha256_hash BY '${hash}' SALT '${salt}';

ALTER USER ${user} ${on_cluster} IDENTIFIED WITH sha256_hash BY '${hash}' SALT '${salt}';

GRANT ${on_cluster} ${role} TO ${user};

ALTER USER ${user} ${on_cluster} DEFAULT ROLE ${role};
