"""Bookings of an airline, and a clerk who keeps to its rules."""
