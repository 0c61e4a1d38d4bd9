"""An autoscaler for gunicorn behind nginx, in a closed loop: what each signal costs and achieves."""
