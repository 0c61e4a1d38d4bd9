"""A local page that asks the analyses back: what is that cloud of slow requests, and what held the workers?"""
