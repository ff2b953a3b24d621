"""The pure core of crag-serve: what CRAG computes, without any framework."""
