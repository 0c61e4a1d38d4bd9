"""Infer the queue of a backend from its arrivals and departures, or from their whole seconds. The input is arrays.

In a first-come-first-served queue with W workers, none of which idles while a request waits, the i-th arrival begins
its service at ``max(a_i, D[i - W])``, with D the departures in order (the recursion of Kiefer & Wolfowitz 1955; used
for inference by Sutton & Jordan 2011, Annals of Applied Statistics 5). So W decides every wait, and the service times
that follow from a wrong W do not agree with each other.
"""
