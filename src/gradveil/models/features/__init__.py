"""Fixed features: pictures and tables as vectors of bounded norm, made without any statistic of private records."""
