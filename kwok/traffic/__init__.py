"""Traffic in the lab: functions that serve requests, the clients that send them, and both in simulation."""
