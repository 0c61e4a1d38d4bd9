"""Place requests in time: visits, waits, services in progress. Shared by blame, depth, goodput, what-if and movie."""
