"""What a running application loses while parts of it are changed, killed or taken away."""
