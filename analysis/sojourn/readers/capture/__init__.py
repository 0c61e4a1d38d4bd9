"""Captures of packets, pcap and pcapng, read into columns."""
