module sojourn/middleware

go 1.22
